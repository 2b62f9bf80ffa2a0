"""The command line `hatch-cubin`: its parser, its output, and a module for each verb."""
