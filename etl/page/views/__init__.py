"""The pages, one thin router per part: from a request to values to a template."""
