package server

// Undoing reports whether a server knows of runs that it has to take back.
func Undoing(s *Server) bool {
	undoing := false
	s.pending.Range(func(_, v any) bool {
		undoing = v.(after).Kind == afterUndo
		return !undoing
	})
	return undoing
}
