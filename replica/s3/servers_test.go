package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stele-go/stele/base/port"
	"github.com/stele-go/stele/replica/bucket"
)

// starts a server of others and returns where it listens. variable says where it is installed, as
// check.sh does. The server ends with the test.
func starts(t *testing.T, variable string, command func(at, host string, port int) *exec.Cmd) string {
	at := os.Getenv(variable)
	if at == "" {
		t.Skipf("%s does not say where it is; check.sh installs it", variable)
	}
	credentials(t)
	n, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(at, "127.0.0.1", n)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		<-ended
		if t.Failed() {
			t.Logf("the server said:\n%.20000s", said.Bytes())
		}
	})
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n)); err == nil {
			_ = c.Close() // nothing was said
			return fmt.Sprintf("http://127.0.0.1:%d", n)
		}
		select {
		case <-ended:
			t.Fatal("it does not start")
		default:
		}
	}
	t.Fatal("it does not listen")
	return ""
}

func TestVersitygw(t *testing.T) {
	conforms(t, starts(t, "STELE_VERSITYGW", func(at, host string, port int) *exec.Cmd {
		return exec.Command(at, "--port", fmt.Sprintf("%s:%d", host, port), "--access", os.Getenv("AWS_ACCESS_KEY_ID"), "--secret", os.Getenv("AWS_SECRET_ACCESS_KEY"), "posix", t.TempDir())
	}))
}

func TestMoto(t *testing.T) {
	endpoint := starts(t, "STELE_MOTO_PYTHON", func(at, host string, port int) *exec.Cmd {
		return exec.Command(at, "-m", "moto.server", "-H", host, "-p", fmt.Sprint(port))
	})
	conforms(t, endpoint)
	b := keeps(t, endpoint)
	if _, err := apiOf(endpoint).PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{Bucket: aws.String("kept"),
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("at/")},
			NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(7)}}}}}); err != nil {
		t.Fatal(err)
	}
	if got := bucket.KeptBy(t.Context(), b); got != (bucket.Kept{Versions: true, Expires: 7 * day}) {
		t.Errorf("with a rule: %+v", got)
	}
}

// TestS3Mock: S3Mock looks whether a condition holds, and puts then. The probe refuses it, as soon as two
// of its racers get in between.
func TestS3Mock(t *testing.T) {
	endpoint := starts(t, "STELE_S3MOCK_JAR", func(at, host string, port int) *exec.Cmd {
		return exec.Command("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", at, "--server.address="+host, "--server.port=0", fmt.Sprintf("--com.adobe.testing.s3mock.httpPort=%d", port), "--com.adobe.testing.s3mock.root="+t.TempDir())
	})
	makeBucket(t, endpoint, "stele")
	b := open(t, endpoint, "stele")
	for i := range 50 { // a busy machine may run one racer after another
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := bucket.Probe(ctx, b)
		if cancel(); errors.Is(err, bucket.ErrUnfit) {
			t.Logf("probe %d: %v", i, err)
			return
		}
	}
	t.Error("the probe never refuses it")
}
