"""Where cells are published: which file each stands for now, by index, folder, URL or channel."""
