package openai

import "time"

// SetSilence sets how long a model may say nothing, until the test calls what it returns.
func SetSilence(d time.Duration) (back func()) {
	was := silent
	silent = d
	return func() { silent = was }
}
