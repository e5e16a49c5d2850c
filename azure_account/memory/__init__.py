"""A storage account in memory that keeps the rules of Azure, and scripted faults."""
