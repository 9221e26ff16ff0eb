package runs

// InMemory is how many runs a queue has in memory.
func InMemory(q *Local) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) + len(q.watched)
}

// IsLocked reports whether somebody has the queue's lock.
func IsLocked(q *Local) bool {
	free := q.mu.TryLock()
	if free {
		q.mu.Unlock()
	}
	return !free
}
