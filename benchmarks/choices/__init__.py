"""The tables behind the choices of the user guide; see __main__.py."""
