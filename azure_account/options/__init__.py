"""Options become typed settings, among them the authentication. Pure."""
