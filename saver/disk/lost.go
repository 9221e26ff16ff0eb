package disk

import "errors"

// ErrLost is returned for a value that damage had destroyed when the store was
// salvaged. It comes with ErrCorrupt: a checkpoint that lost a channel must not pass
// for one that never had it.
var ErrLost = errors.New("the value was lost before the store was salvaged")
