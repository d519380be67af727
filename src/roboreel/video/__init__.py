"""Pictures in video files as arrays, and back."""
