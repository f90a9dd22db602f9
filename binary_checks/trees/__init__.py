"""What holds the members of a package: one pass over them, each verified, in bounded memory."""
