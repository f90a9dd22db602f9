"""What keeps libraries from loading on Windows, and what attackers like there."""
