# noqa: A005 - named like the folder that it tests
