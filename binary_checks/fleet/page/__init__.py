"""The site about all nights: static, usable offline and without scripts."""
