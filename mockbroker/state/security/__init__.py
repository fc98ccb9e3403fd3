"""ACLs, credentials, delegation tokens and logins."""
