"""Nights: plan, run in two queues, resume, merge and close them."""
