"""The account of the port: requests are repeated, and their failures become outcomes or errors."""
