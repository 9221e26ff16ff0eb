package s3

// OpenSilent is Open with the time that a server may say nothing.
var OpenSilent = open

// Total is the size that a header of a part tells.
var Total = total

// Parse is the bucket and the prefix of an address.
func Parse(text string) (name, prefix string, err error) {
	a, err := parse(text)
	return a.bucket, a.prefix, err
}
