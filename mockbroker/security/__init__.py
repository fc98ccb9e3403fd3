"""Authentication and authorization of clients: SASL, certificates, principals, ACL checks."""
