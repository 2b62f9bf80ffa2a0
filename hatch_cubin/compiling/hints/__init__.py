"""Find hints for failed compiles: each module recognises one kind of cause."""
