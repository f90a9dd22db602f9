"""How things are spelled in sentences, and what may be shown of a text from outside."""
