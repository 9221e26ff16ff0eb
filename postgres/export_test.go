package postgres

import "context"

// Renew renews the leases of a Saver, as it does by itself from time to time.
func Renew(s *Saver) { s.renewOnce(context.Background()) }
