"""Find all headers that a source may include, along the search path, and reuse results of earlier builds."""
