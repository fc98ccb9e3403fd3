"""The transaction coordinator's topic and the transaction markers."""
