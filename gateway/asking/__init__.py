"""The page behind a question's link: what is asked, exactly, and buttons that answer it."""
