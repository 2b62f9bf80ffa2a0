"""Find the headers that a source can read: the search path, the includes, results of earlier builds."""
