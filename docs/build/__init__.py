"""Programs that write documents: PYTHONPATH=src:scripts python -m docs.build."""
