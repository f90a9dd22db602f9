"""What keeps libraries from loading on Windows, and what helps attackers there."""
