"""What any module may use: files, digests, notices to users, sizes as text."""
