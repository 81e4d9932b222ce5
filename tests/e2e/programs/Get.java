import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Fetches a URL with one of Java's two clients as it is, and prints status and body. */
public class Get {
	public static void main(String[] arguments) throws Exception {
		if (arguments[0].equals("client")) {
			var request = HttpRequest.newBuilder(URI.create(arguments[1])).build();
			var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
			System.out.println(answer.statusCode() + " " + answer.body());
		} else {
			var answer = (HttpURLConnection) new URL(arguments[1]).openConnection();
			int status = answer.getResponseCode();
			var body = status >= 400 ? answer.getErrorStream() : answer.getInputStream();
			System.out.println(status + " " + answer.getResponseMessage() + " " + new String(body.readAllBytes()));
		}
	}
}
