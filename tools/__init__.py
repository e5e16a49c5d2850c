"""Set-up of a checkout, and Java, Node, Azurite and a local Spark for its tests and demo. Not part of the product."""
