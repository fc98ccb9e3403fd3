"""The bodies and parameters of the API by subject, from which its OpenAPI description is made.

Names in JSON are in camel case. Bodies of requests refuse unknown fields.
"""
