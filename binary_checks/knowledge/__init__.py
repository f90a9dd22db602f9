"""What is known of vendors and tags: pure tables and rules that checks share."""
