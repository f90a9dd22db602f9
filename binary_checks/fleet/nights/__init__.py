"""The night: planned, run in two queues, resumed, collected, summed up and pruned."""
