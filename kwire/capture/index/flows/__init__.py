"""From the pieces of streams to exchanges: frames, headers, pairs of requests and responses, span by span."""
