"""The command line `hatch-cubin`: the parser, the output, and a module for each verb such as `bake`."""
