"""What a checkout needs to run itself: set-up, Java, Node, Azurite and a local Spark. Not part of the product."""
