"""What people decide: about refused lines, failed audits, days that are read again, the terms of one run."""
