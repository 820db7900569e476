{{/* What the values come to. */}}

{{- define "headcount.selector" -}}
app.kubernetes.io/name: cluster-autoscaler
{{- end }}

{{- define "headcount.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "headcount.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* headcount.yaml, with what the transport adds. */}}
{{- define "headcount.config" -}}
{{- $tls := dict "cert" "/etc/headcount-tls/tls.crt" "key" "/etc/headcount-tls/tls.key" "clientCa" "/etc/headcount-tls/ca.crt" -}}
{{- $_ := set $tls "allowedClients" (list "cluster-autoscaler") -}}
{{- $added := eq .Values.transport "mtls-cert-manager" | ternary (dict "grpc" (dict "tls" $tls)) dict -}}
{{- merge (deepCopy .Values.config) $added | toYaml -}}
{{- end }}

{{/* How the Cluster Autoscaler calls Headcount: the file behind its --cloud-config. */}}
{{- define "headcount.cloudConfig" -}}
{{- if eq .Values.transport "unix-socket" -}}
address: unix:///run/headcount/grpc.sock
{{- else if eq .Values.transport "loopback" -}}
address: 127.0.0.1:8086
{{- else -}}
address: localhost:8086
cacert: /etc/cluster-autoscaler-tls/ca.crt
cert: /etc/cluster-autoscaler-tls/tls.crt
key: /etc/cluster-autoscaler-tls/tls.key
{{- end }}
grpc_timeout: 10s
{{- end }}

{{/* "true" if Headcount watches the nodes. */}}
{{- define "headcount.watches" -}}
{{- if or (dig "learn" "kubernetes" false .Values.config) (dig "kubernetes" "taints" false .Values.config) }}true{{ end -}}
{{- end }}
