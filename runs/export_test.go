package runs

import "context"

// InMemory is how many runs a queue has in memory.
func InMemory(q *Local) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) + len(q.watched)
}

// Turn is Local.turn.
func (q *Local) Turn(ctx context.Context, c Claim, o Outcome, graphs []string) (*Claim, error) {
	return q.turn(ctx, c, o, "w", graphs)
}
