package server

import "sync"

// locks are for changes of a record that read it first. They hold only in this process: if two servers
// change a record at the same time, the later change wins. A caller that needs several takes an
// assistant's first, then a cron's, a thread's, and that of removed runs.
type locks struct {
	mu   sync.Mutex
	held map[lockKey]*lock
}

type lockKey struct{ kind, id string }

type lock struct {
	sync.Mutex
	users int
}

func (l *locks) assistant(id string) (unlock func()) { return l.lock(lockKey{"assistant", id}) }

func (l *locks) cron(id string) (unlock func()) { return l.lock(lockKey{"cron", id}) }

// thread locks a thread's record, and the making and removing of its runs and its state.
func (l *locks) thread(id string) (unlock func()) { return l.lock(lockKey{"thread", id}) }

// removedRuns is the lock of the removedRuns of a thread.
func (l *locks) removedRuns(threadID string) (unlock func()) {
	return l.lock(lockKey{"removed runs", threadID})
}

// lock waits for a lock and returns the function that releases it.
func (l *locks) lock(of lockKey) (unlock func()) {
	l.mu.Lock()
	k := l.held[of]
	if k == nil {
		k = &lock{}
		l.held[of] = k
	}
	k.users++
	l.mu.Unlock()
	k.Lock()
	return func() {
		k.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, of)
		}
	}
}
