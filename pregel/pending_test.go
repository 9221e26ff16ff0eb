package pregel_test

import "fmt"

// httpError and awsError are errors as clients of HTTP services return them.
type httpError int

func (e httpError) Error() string   { return fmt.Sprint("status ", int(e)) }
func (e httpError) StatusCode() int { return int(e) }

type awsError int

func (e awsError) Error() string       { return fmt.Sprint("status ", int(e)) }
func (e awsError) HTTPStatusCode() int { return int(e) }
