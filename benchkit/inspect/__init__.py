"""Looking at scored experiments item by item: a scatter of their scores, and frames with pictures of single items."""
