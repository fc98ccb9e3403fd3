"""Transactional ids and the transaction coordinator."""
