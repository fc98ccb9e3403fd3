"""TLS decryption with logged secrets."""
