"""Parts that every command needs: errors, the session, files and locks. No stage, no Delta."""
