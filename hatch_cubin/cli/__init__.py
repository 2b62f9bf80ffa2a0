"""The command line `hatch-cubin`: its parser and its output, and a module for each verb."""
