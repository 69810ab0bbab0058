"""The app of the test of the deployment runtime."""
