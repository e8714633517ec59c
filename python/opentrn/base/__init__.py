"""What any module may use: files, notices to users, sizes as text."""
