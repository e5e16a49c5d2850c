"""Programs to try: flights through Spark into blobs and back; processors that share tasks."""
