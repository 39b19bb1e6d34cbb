"""The shell: sockets, request handlers, timers and tasks around the pure cores."""
