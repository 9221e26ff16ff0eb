// Package s3test starts servers of others that answer as S3 does, for tests. Each is found by a variable, which says where it
// is installed, as replica/s3/check.sh does; a test whose variable is not set is skipped.
//
// It is for this repository, and makes no promise to others.
package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stele-go/stele/base/port"
)

// Credentials gives a test, and the processes that it starts, credentials, and nothing of the machine's.
func Credentials(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "steletest", "AWS_SECRET_ACCESS_KEY": "stelesecret", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
		"HTTP_PROXY": "", "http_proxy": "", "AWS_CA_BUNDLE": "",
	} {
		if t.Setenv(name, value); value == "" {
			_ = os.Unsetenv(name) // until Setenv's cleanup
		}
	}
}

// MakeBucket makes the bucket of a server.
func MakeBucket(t *testing.T, endpoint, name string) {
	t.Helper()
	if _, err := API(endpoint).CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
}

// API is a server as its administrator has it.
func API(endpoint string) *awss3.Client {
	return awss3.New(awss3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
		})})
}

// starts a server of others and returns where it listens. variable says where it is installed, as
// check.sh does. The server ends with the test.
func starts(t *testing.T, variable string, command func(at, host string, port int) *exec.Cmd) string {
	at := os.Getenv(variable)
	if at == "" {
		t.Skipf("%s does not say where it is; check.sh installs it", variable)
	}
	Credentials(t)
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

// Versitygw starts versitygw, and returns its endpoint. The server ends with the test.
func Versitygw(t *testing.T) (endpoint string) {
	return starts(t, "STELE_VERSITYGW", func(at, host string, port int) *exec.Cmd {
		return exec.Command(at, "--port", fmt.Sprintf("%s:%d", host, port),
			"--access", os.Getenv("AWS_ACCESS_KEY_ID"), "--secret", os.Getenv("AWS_SECRET_ACCESS_KEY"), "posix", t.TempDir())
	})
}

// Moto starts moto, and returns its endpoint. The server ends with the test. Moto looks whether a condition holds, and
// puts then, in threads; so it gets one request at a time, each once its body is whole.
func Moto(t *testing.T) (endpoint string) {
	return starts(t, "STELE_MOTO_PYTHON", func(at, host string, port int) *exec.Cmd {
		return exec.Command(at, "-c", oneByOne, host, fmt.Sprint(port))
	})
}

const oneByOne = `
import io, os, sys, threading
host, port = sys.argv[1], int(sys.argv[2])
os.environ["MOTO_PORT"] = str(port)
from moto.server import DomainDispatcherApplication, create_backend_app, run_simple

moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

def one_by_one(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    with turn:
        return [b"".join(moto(environ, start_response))]

run_simple(host, port, one_by_one, threaded=True)
`

// S3Mock starts S3Mock, and returns its endpoint. The server ends with the test.
func S3Mock(t *testing.T) (endpoint string) {
	return starts(t, "STELE_S3MOCK_JAR", func(at, host string, port int) *exec.Cmd {
		return exec.Command("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", at,
			"--server.address="+host, "--server.port=0", fmt.Sprintf("--com.adobe.testing.s3mock.httpPort=%d", port),
			"--com.adobe.testing.s3mock.root="+t.TempDir())
	})
}
