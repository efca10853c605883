"""The values that a file may hold: types, times, sizes, names, expressions, expectations."""
